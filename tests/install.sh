#!/bin/sh
# Installs what a test speaks to and what is not ours: `tests/install.sh NAME`, for each folder here that names packages
# (`editor`, `mcp`, `mock`, …), in the versions of its package-lock.json or requirements.txt, below the target folder. Where that cannot be
# done it says so and succeeds; the tests that need it then say that they were skipped.
set -u
here=$(cd "$(dirname "$0")" && pwd)/$1
target=${CARGO_TARGET_DIR:-$here/../../target}/$1

skip() {
    echo "skipped: $1 is not installed: $2"
    exit 0
}

# Packages for Python, where the folder names them.
if [ -f "$here/requirements.txt" ]; then
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || skip "$1" "there is no Python 3.11"
    python3 -m pip --version >/dev/null 2>&1 || skip "$1" "there is no pip"
    if cmp -s "$here/requirements.txt" "$target/requirements.txt"; then
        echo "$1 is installed"
        exit 0
    fi
    rm -rf "$target"
    mkdir -p "$target" || skip "$1" "$target cannot be written"
    # Each version is named with its digest, also those of what the server needs.
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        --target "$target/site" -r "$here/requirements.txt" || {
        rm -rf "$target"
        skip "$1" "pip install failed"
    }
    cp "$here/requirements.txt" "$target/"
    echo "$1 is installed"
    exit 0
fi

command -v node >/dev/null 2>&1 || skip "$1" "there is no node"
command -v npm >/dev/null 2>&1 || skip "$1" "there is no npm"
if [ -d "$target/node_modules" ] && cmp -s "$here/package-lock.json" "$target/package-lock.json"; then
    echo "$1 is installed"
    exit 0
fi
# The lock is copied last: where it stands, the installation is whole.
rm -rf "$target"
mkdir -p "$target/new" && cp "$here/package.json" "$here/package-lock.json" "$target/new" || skip "$1" "$target cannot be written"
(cd "$target/new" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) || {
    rm -rf "$target"
    skip "$1" "npm ci failed"
}
mv "$target/new/node_modules" "$target/new/package.json" "$target/" && mv "$target/new/package-lock.json" "$target/"
rmdir "$target/new"
echo "$1 is installed"
