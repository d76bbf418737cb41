"""Checks every YAML file of a folder against a JSON Schema, on all cores."""

import json
import multiprocessing
import os
import pathlib
import sys

import jsonschema
import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
VALIDATOR = None


def prepare(schema):
    global VALIDATOR
    with open(schema, encoding="utf-8") as file:
        VALIDATOR = jsonschema.Draft202012Validator(json.load(file))


def faults(path):
    with open(path, encoding="utf-8") as file:
        value = yaml.load(file, Loader=LOADER)
    return [f"{path}: {error.message}" for error in VALIDATOR.iter_errors(value)]


def main(schema, folder):
    files = sorted(str(path) for path in pathlib.Path(folder).glob("*.yaml"))
    with multiprocessing.Pool(os.cpu_count(), prepare, (schema,)) as pool:
        found = [fault for list in pool.imap(faults, files, 16) for fault in list]
    print("\n".join(found) or f"{len(files)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
