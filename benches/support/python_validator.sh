#!/bin/sh
# A schema validator in Python, beside which `validate` is measured.
#
#   python_validator.sh prepare           installs PyYAML and jsonschema, once, into the user's cache
#   python_validator.sh run SCHEMA FOLDER checks every file of the folder; exit code 1 where one is wrong
set -eu
place="${XDG_CACHE_HOME:-$HOME/.cache}/ensemble-bench/python"
here=$(dirname "$0")
case "$1" in
prepare)
    if ! "$place/bin/python" -c 'import yaml, jsonschema' 2>/dev/null; then
        python3 -m venv "$place"
        "$place/bin/pip" install --quiet --disable-pip-version-check PyYAML jsonschema
    fi
    "$place/bin/python" -c 'import yaml, jsonschema'
    ;;
run)
    exec "$place/bin/python" "$here/python_validator.py" "$2" "$3"
    ;;
esac
