"""Interprets names of folders, labels and splits: finds their split, and whether they mean normal, abnormal or mask.

Case and punctuation are ignored (`test_public`, `NoTumor`, `0-normal`). A name of unknown meaning has the label
"other", which becomes an abnormal class if another name means normal; otherwise a person is asked.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from core.studio.ingest.names import folded

SUGGESTS = "these file names suggest a lesion or a mask"  # reason to ask a person about images without a class


def words(text: str) -> frozenset[str]:
    """Splits a text into a set of words, so that the long lists below can be written compactly."""
    return frozenset(text.split())


SPLITS = dict.fromkeys(words("train training trn"), "train")
SPLITS |= dict.fromkeys(words("val valid validation dev holdout heldout"), "holdout")
SPLITS |= dict.fromkeys(words("test testing tst"), "test")
_NORMAL = words(
    "clean control controls defectfree gesund good healthy neg negative negatives nondefective normal normals ok "
    "sain saine sana sani sano undamaged unremarkable норма 正常"
)
_ABNORMAL = words(
    "abnormal abnormalities abnormality abnormals anomalie anomalies anomalous anomaly bad defect defective "
    "defects disease diseased diseases enfermo ill krank lesion lesions malade ng pathologic pathological "
    "pathology pos positive positives sick ungood unhealthy патология 异常 異常"
)
_DISEASE = words(
    "abscess ad adenocarcinoma adenoma alzheimer amd aneurysm arthritis atelectasis bcc benign bleeding cancer "
    "carcinoma cardiomegaly cataract cirrhosis cnv colitis consolidation covid csc cyst damage damaged dme dr "
    "drusen dysplasia edema effusion emphysema exudate exudates fibrosis fracture fractured glaucoma glioma "
    "haemorrhage hemorrhage hernia ich infarct infected infection infiltration inflammation injury leukemia "
    "lymphoma malignant mass melanoma meningioma metastases metastasis metastatic microaneurysm microaneurysms "
    "nevus nodule nodules oedema parasitized pituitary pneumonia pneumothorax polyp polyps retinopathy sarcoma "
    "scc sclerosis severe stroke tb tuberculosis tumor tumors tumour tumours ulcer ulcers"
)
_UNKNOWN = words("unknown unlabelled unlabeled unsorted undecided")
_MASK = words("annotation annotations groundtruth gt label labels mask masks seg segm segmentation segmentations truth")
_IMAGE = words(
    "data dataset dicom frames image images img imgs jpeg jpg photo photos picture pictures png raw tif tiff"
)
_NEUTRAL = words(
    "batch bone brain breast camera case cases cecum center centre chest class colon ct cxr date day device dir "
    "dirs exam eye eyes folder frame fundus head heart hospital im kidney line liver lung lungs mr mri oct pa "
    "part patient patients pylorus ray rays recording retina scan scanner scans se sequence series session site "
    "skin slice slide slides st studies study sub subject subjects thorax tissue ultrasound us video visit volume "
    "x xray xrays z"
)
_NO = words("no non not without ohne sans sin")
_CAMEL = re.compile(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])")
_NUMBERED = re.compile(r"\d{3,}|\d{4}\D\d\d\D\d\d|[0-9a-f-]{8,}|[A-Za-z]{0,3}[\d.]{6,}", re.I)


@dataclass(frozen=True)
class Meaning:
    """Meaning of the name of a folder or of a label in a table.

    label: "normal", "abnormal", "unknown", "mask", "other", "doubt" (if the words contradict each other) or None.
    generic: Whether the name, such as `Ungood`, names no specific class, so it is ignored when masks are matched.
    """

    split: str | None = None
    label: str | None = None
    generic: bool = False


@functools.lru_cache(10_000)
def meaning(name: str) -> Meaning:
    """Returns the meaning of the name of a folder or of a label in a table."""
    tokens = [word for word in re.findall(r"[^\W\d_]+", folded(_CAMEL.sub(" ", name)))]
    splits = {SPLITS[word] for word in tokens if word in SPLITS}
    tokens = [word for word in tokens if word not in SPLITS]
    split = splits.pop() if len(splits) == 1 else None
    if splits:
        return Meaning(label="doubt")
    if _MASK & set(tokens):
        return Meaning(split, "doubt" if _NO & set(tokens) else "mask", True)
    if _UNKNOWN & set(tokens):
        return Meaning(split, "unknown", True)
    signs, has_other_words = _signs(tokens)
    if 1 in signs and tokens[-1] in _ABNORMAL:  # such as a folder of abnormal images of a class called `good`
        return Meaning(split, "abnormal")
    if 1 in signs:
        return Meaning(split, "doubt" if len(set(signs)) > 1 or has_other_words else "normal", False)
    if -1 in signs:
        return Meaning(split, "abnormal", not has_other_words and not _DISEASE & set(tokens))
    if not split and (has_other_words or (not tokens and not _NUMBERED.fullmatch(name))):
        return Meaning(None, "other")
    return Meaning(split, None, bool(split) or (bool(tokens) and set(tokens) <= _IMAGE))


def _signs(tokens: list[str]) -> tuple[list[int], bool]:
    """Returns (1 for each word that means normal and -1 for each that means abnormal, whether other words occur)."""
    signs, has_other_words, negated = list[int](), False, False
    for index, word in enumerate(tokens):
        sign = _sign(word)
        if word in _NO and index + 1 < len(tokens):
            negated = not negated
        elif word in ("finding", "findings"):
            signs.append(1 if negated else -1)
            negated = False
        elif sign and index + 1 < len(tokens) and tokens[index + 1] == "free":
            signs.append(1 if sign < 0 else -1)
        elif sign:
            signs.append(-sign if negated else sign)
            negated = False
        elif word not in _NEUTRAL | _IMAGE and not (word == "free" and index and _sign(tokens[index - 1])):
            has_other_words = True
    return signs, has_other_words or negated


def _sign(word: str) -> int:
    """Returns 1 for a word that means normal, -1 for a word that means abnormal, and 0 for any other word."""
    sick = _ABNORMAL | _DISEASE
    if word in _NORMAL:
        return 1
    if word in sick or any(word.removeprefix(un) in _NORMAL for un in ("un", "ab", "non", "not", "in")):
        return -1
    bare = word.removesuffix("free") if word.endswith("free") else word
    return int(bare != word and bare in sick or any(word.removeprefix(no) in sick for no in ("non", "not", "no", "un")))


def abnormal_word(name: str) -> str | None:
    """Returns the first word of a file name that means abnormal, such as `pneumonia` in `pneumonia_003`, or None."""
    tokens = re.findall(r"[^\W\d_]+", folded(_CAMEL.sub(" ", name)))
    return next((word for word in tokens if len(word) > 3 and _sign(word) < 0), None)
