# Prints one review; the key of the part is its file.
cat "$(dirname "$0")/$ENSEMBLE_PART"
