"""compare_adapted.py PUBLISHED.py FOLDER: every table of the folder as it is, and through its adapter, is priced alike."""
import csv
import pathlib
import subprocess
import sys

script, folder = sys.argv[1], pathlib.Path(sys.argv[2])


def predicted(table):
    out = folder / "out"
    subprocess.run(["colossal-cost", "predict", "-q", "--memory", "--table", table, "-o", out], check=True)
    lines = [line for line in out.read_text().splitlines() if not line.startswith("#")]
    return [{c: v for c, v in row.items() if c.startswith("predicted")} for row in csv.DictReader(lines)]


for path in sorted(folder.glob("*.csv")):
    rows = folder / "rows"
    subprocess.run([sys.executable, script, path, "-o", rows], check=True)
    raw, adapted = predicted(path), predicted(rows)
    assert raw and all(row["predicted_ms"] or row["predicted_gib"] for row in raw), (path.name, raw)
    assert raw == adapted, (path.name, raw, adapted)
    print(f"{path.stem}: {len(raw)} rows alike")
