#!/bin/sh
# Installs what a test speaks to and what is not ours: `tests/install.sh editor`, `mcp` or `mock`, in the versions that
# the folder's package-lock.json names, below the target folder. Where that cannot be done it says so and succeeds; the
# tests that need it then say that they were skipped.
set -u
here=$(cd "$(dirname "$0")" && pwd)/$1
target=${CARGO_TARGET_DIR:-$here/../../target}/$1

skip() {
    echo "skipped: $1 is not installed: $2"
    exit 0
}

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
