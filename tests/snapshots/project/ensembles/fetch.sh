echo "1 of 2 pages"
echo "page 2 is not there" >&2
exit 3
