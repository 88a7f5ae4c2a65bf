"""Small DICOM series of our own making, each with a patient whose data must not appear anywhere."""

import os

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

# What no output but the segmentation may hold.
PATIENT = {
    "PatientName": "Canary^Cäsar",
    "PatientID": "CANARY-ID-4711",
    "PatientBirthDate": "19010203",
    "AccessionNumber": "CANARYACC",
    "ReferringPhysicianName": "Canary^Doctor",
    "StudyDescription": "canary study",
    "SeriesDescription": "canary series",
    "InstitutionName": "canary hospital",
}


def directions(degrees=20.0):
    """Rows and columns of an oblique slice, and their normal."""
    turn = np.radians(degrees)
    row = np.array([np.cos(turn), np.sin(turn), 0.0])
    column = np.array([-np.sin(turn) * np.cos(0.3), np.cos(turn) * np.cos(0.3), np.sin(0.3)])
    return row, column, np.cross(row, column)


def volume(slices=6, size=128):
    """A bright ball in a dim, noisy surrounding, in Hounsfield units."""
    z, y, x = np.mgrid[0:slices, 0:size, 0:size]
    distance = np.sqrt((x - 0.52 * size) ** 2 + (y - 0.47 * size) ** 2 + (3.0 * (z - slices / 2)) ** 2)
    noise = np.random.default_rng(1).normal(0, 25, (slices, size, size))
    return (-850 + 900 / (1 + np.exp((distance - 0.07 * size) / 1.5)) + noise).astype(np.int16)


def make(values, gap=2.5, spacing=(0.7, 0.6), origin=(-31.5, 12.25, -140.0), numbers=None):
    """A list of data sets, one for each slice, in the order of their places."""
    row, column, normal = directions()
    study, series, frame_of_reference = generate_uid(), generate_uid(), generate_uid()
    made = []
    for at, plane in enumerate(values):
        one = Dataset()
        for name, value in PATIENT.items():
            setattr(one, name, value)
        one.SpecificCharacterSet = "ISO_IR 100"
        one.PatientSex = "O"
        one.SOPClassUID, one.SOPInstanceUID = CTImageStorage, generate_uid()
        one.StudyInstanceUID, one.SeriesInstanceUID, one.FrameOfReferenceUID = study, series, frame_of_reference
        one.StudyDate, one.StudyTime, one.StudyID = "20200101", "120000", "1"
        one.Modality, one.SeriesNumber = "CT", 3
        # Against the order of places: numbers of instances say nothing of it.
        one.InstanceNumber = len(values) - at
        one.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
        one.PositionReferenceIndicator = ""
        one.ImagePositionPatient = [f"{v:.6f}" for v in np.array(origin) + at * gap * normal]
        one.ImageOrientationPatient = [f"{v:.8f}" for v in (*row, *column)]
        one.PixelSpacing, one.SliceThickness = list(spacing), gap
        one.SamplesPerPixel, one.PhotometricInterpretation = 1, "MONOCHROME2"
        one.Rows, one.Columns = plane.shape
        one.BitsAllocated, one.BitsStored, one.HighBit, one.PixelRepresentation = 16, 16, 15, 1
        one.RescaleSlope, one.RescaleIntercept = 1, -1024
        one.PixelData = (plane.astype(np.int32) + 1024).astype("<i2").tobytes()
        one.file_meta = FileMetaDataset()
        one.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        made.append(one)
    return made


def save(folder, datasets, numbers=None):
    """Saves a series; names have nothing to do with places."""
    os.makedirs(folder, exist_ok=True)
    order = np.random.default_rng(7).permutation(len(datasets))
    for name, at in enumerate(order):
        datasets[at].save_as(os.path.join(folder, f"IM{name:04}"), enforce_file_format=True)
    return folder
