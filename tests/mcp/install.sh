#!/bin/sh
# Installs the published MCP server for tests/mcp.rs, in the versions that package-lock.json names. Where that cannot be
# done it says so and succeeds; the tests that need it then say that they were skipped.
set -u
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$project/target}/mcp

skip() {
    echo "skipped: the published MCP server is not installed: $1"
    exit 0
}

command -v node >/dev/null 2>&1 || skip "there is no node"
command -v npm >/dev/null 2>&1 || skip "there is no npm"
if [ -d "$target/node_modules" ] && cmp -s "$here/package-lock.json" "$target/package-lock.json"; then
    echo "the published MCP server is installed in $target"
    exit 0
fi
# The lock is copied last: where it stands, the installation is whole.
rm -rf "$target"
mkdir -p "$target/new" && cp "$here/package.json" "$here/package-lock.json" "$target/new" || skip "$target cannot be written"
(cd "$target/new" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) || {
    rm -rf "$target"
    skip "npm ci failed"
}
mv "$target/new/node_modules" "$target/new/package.json" "$target/" && mv "$target/new/package-lock.json" "$target/"
rmdir "$target/new"
echo "the published MCP server is installed in $target"
