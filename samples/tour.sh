#!/bin/sh
# Set up, then run the main job on the samples, showing each command and what it prints.
# The files it makes stay in a fresh folder, for a look at them afterwards.
set -eu
# Not in every sh yet, and without it only the end of a pipe can fail.
if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/.ci/venv.sh"

use_venv ""
PATH="$venv/bin:$PATH"
export PATH

folder=$(mktemp -d)
cd "$folder"
# Links, so that the commands shown are short and work as they are shown.
ln -s "$root/samples" samples

# run COMMAND: shows a command line as one would type it, then runs it.
run() {
    printf '\n$ %s\n' "$1"
    eval "$1"
}

echo "in $folder:"

run 'lod convert samples/japanese_vowels.ts vowels.lod.h5'
run 'lod convert samples/articles.txt articles.lod.h5'
run 'lod convert samples/events.jsonl events.lod.h5'

run 'lod inspect articles.lod.h5'
run 'lod inspect vowels.lod.h5'
run 'lod slice articles.lod.h5 2,0 -o s.lod.h5'
run 'lod slice articles.lod.h5 2 | lod slice - 0 | lod inspect -'

run 'lod unpack vowels.lod.h5 -o steps.lod.h5 --level 0 --sort-by-length'
run 'lod inspect steps.lod.h5'
run 'lod pack steps.lod.h5 -o back.lod.h5'

run 'lod run-rnn vowels.lod.h5 -o out.lod.h5 --cell lstm --hidden 64 --seed 1 --emit last'
run 'lod inspect out.lod.h5'
run 'lod verify *.lod.h5'

printf '\nThe files are in %s\n' "$folder"
