"""A folder as TCIA hands out LIDC-IDRI, of our own making: DICOM series, and XML files in the public schema."""

import os

import numpy as np

import series


def border(mask):
    """The pixels around a blob, one after the other: the first ones outside of it."""
    rows, columns = np.nonzero(mask)
    top, bottom, left, right = rows.min() - 1, rows.max() + 1, columns.min() - 1, columns.max() + 1
    points = [(x, top) for x in range(left, right)] + [(right, y) for y in range(top, bottom)]
    points += [(x, bottom) for x in range(right, left, -1)] + [(left, y) for y in range(bottom, top - 1, -1)]
    return points


def roi(uid, z, points):
    edges = "".join(f"<edgeMap><xCoord>{x}</xCoord><yCoord>{y}</yCoord></edgeMap>" for x, y in points)
    return (
        f"<roi><imageZposition>{z}</imageZposition><imageSOP_UID>{uid}</imageSOP_UID>"
        f"<inclusion>TRUE</inclusion>{edges}</roi>"
    )


def make(folder, patients=2):
    """Writes patients with one nodule each, boxes that four readers drew, the last reader none. Gives the boxes:
    by patient and reader, a mask for each slice."""
    drawn = []
    for number in range(1, patients + 1):
        name = f"LIDC-IDRI-{number:04}"
        values = series.volume(slices=8, size=160)
        datasets = series.make(values)
        series.save(f"{folder}/LIDC-IDRI/{name}/01-01-2000/3000566", datasets)
        sessions, masks = [], []
        for reader in range(4):
            mask = np.zeros(values.shape, bool)
            if reader < 3:
                mask[2 : 5 + reader, 70 : 78 + reader, 80 + reader : 90] = True
            rois = [
                roi(datasets[z].SOPInstanceUID, float(datasets[z].ImagePositionPatient[2]), border(mask[z]))
                for z in np.nonzero(mask.any((1, 2)))[0]
            ]
            nodule = f"<unblindedReadNodule><noduleID>{reader}</noduleID>{''.join(rois)}</unblindedReadNodule>"
            sessions.append(f"<readingSession>{nodule if rois else ''}</readingSession>")
            masks.append(mask)
        drawn.append(masks)
        os.makedirs(f"{folder}/tcia-lidc-xml/157", exist_ok=True)
        with open(f"{folder}/tcia-lidc-xml/157/{number:03}.xml", "w") as file:
            file.write(
                '<?xml version="1.0" encoding="UTF-8"?>\n<LidcReadMessage xmlns="http://www.nih.gov"><ResponseHeader>'
                f"<SeriesInstanceUid>{datasets[0].SeriesInstanceUID}</SeriesInstanceUid></ResponseHeader>"
                f"{''.join(sessions)}</LidcReadMessage>"
            )
    return drawn
