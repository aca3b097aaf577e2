"""The job file that ``expunge forget --init`` writes."""

from __future__ import annotations

TEMPLATE = """\
# A deletion request. Run it with:  expunge forget --job FILE
# Paths are relative to this file. A line that begins with # is a default or an alternative.

# --- the model ---------------------------------------------------------------------------
weights = "model.safetensors"    # or a .pt file with a state dict, never a pickled module
# A file written by `expunge train` knows its model and its data. Other weights need:
# model = "small-cnn"            # small-cnn, resnet18, vgg16, or package.module:factory
# [model_options] at the end of this file holds the keyword arguments of the model.

# --- the data it was trained on ----------------------------------------------------------
data = "digits"                  # cifar10:PATH, svhn:PATH, folder:PATH, npz:FILE, or
                                 # package.module:factory that returns (train, val, test)
# data_limit = 1000              # only so many training records
# data_seed = 0                  # of the limit, and of the val part where there is none
# val_fraction = 0.1             # size of that val part against the training part
# val_from = "test"              # "train" if the model was trained without the val part

# --- what to forget ----------------------------------------------------------------------
ids = "request.csv"              # text (one id a line), CSV or JSON: indices or file names
# records = "records.csv"        # a line for each training record, with its index or name ...
# id_column = "person"           # ... and this column: the ids are then values of it
# include_duplicates = "none"    # or "exact": copies of these records too; "near": similar ones too

# --- where the result goes ---------------------------------------------------------------
out = "forgotten"

# --- how ---------------------------------------------------------------------------------
# method = "SRL"
# addon = "FOCUS"
# moments = "published"          # of the add-on; by default its own choice
# alpha = 0.05                   # weight of forgetting against keeping
# lr = 1e-4
# batch_size = 256
# max_epochs = 30
# batchnorm = "published"        # or "retain-only", "frozen"
# augment = false                # random crops of the images while unlearning
# floor = 2.0                    # points of accuracy on val that may be lost
# level = 0.95                   # of all intervals
# seed = 0
# device = "auto"

# [model_options]
# width = 1.0
"""


def job_template() -> str:
    """A commented job file: put the paths in, and it runs."""
    return TEMPLATE
