"""The evidence pack: what a release guarantees, recomputed and explained, from its card alone.

| file | content |
|---|---|
| `evidence.html` | one page for a board, printable |
| `statement.md` | the guarantee, organised as NIST SP 800-226 organises one |
| `registry.yaml` | a record for the OpenDP deployments registry (JSON, which is YAML) |
| `evidence.json` | all figures, and the card with its ledger, from which `weft verify` derives the other files again |

Privacy: everything is computed from the card, which is released; no private row is read.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scipy.special import ndtr

from weft import __version__
from weft.display import format_count, format_percent, load_template
from weft.errors import WeftError
from weft.io.atomic_files import stage_files
from weft.privacy import Ledger, at_most
from weft.privacy.attacker_bounds import bound_advantage, bound_success
from weft.privacy.second_accountant import recount
from weft.release.card import escape_markdown
from weft.synthesis.statement import NOT_PRIVATE, describe_lifetime

PACK = "evidence.json"
VERSION = 1
OPEN = "TO BE COMPLETED BY THE CURATOR"

Facts = Mapping[str, Any]


def build_evidence(card: Facts, audit: Sequence[Facts] = ()) -> dict[str, Any]:
    """Return all figures of an evidence pack; `audit` has the attacks on this method and budget that were observed."""
    ledger = Ledger.from_dict(card["ledger"])
    if ledger.deniable:
        raise WeftError(
            "this release is plausibly deniable and not differentially private: there is no guarantee to give evidence "
            "of. Release it with a differentially private method"
        )
    advantage, texts = bound_advantage(ledger), _write_texts(card)
    games = [
        game | {"success_without": 1 / game["one_in"], "success_at_most": bound_success(ledger, 1 / game["one_in"])}
        for game in texts["games"]
    ]
    return {
        "evidence": VERSION,
        "weft": __version__,
        "release": name_release(card),
        "warnings": list(card["stamps"]),
        "statement": texts["statement"],
        "accountants": [each.to_dict() for each in recount(ledger)],
        "meaning": {"advantage_at_most": advantage, "right_at_most": (1 + advantage) / 2, "games": games},
        "audit": list(audit),
        "not_protected": texts["not_protected"],
        "card": dict(card),
    }


def name_release(card: Facts) -> str:
    """Return the file names of a release."""
    tables = card["tables"].values() if "tables" in card else [card["table"]]
    return ", ".join(str(entry["file"]) for entry in tables)


def select_audit(found: Any, card: Facts) -> list[dict[str, Any]]:
    """Select from the output of `weft audit --json` the attacks on the method and budget of a release."""
    budget, method = Ledger.from_dict(card["ledger"]).budget, card["method"]["name"]
    command = f"weft audit -m {method} -e {budget.nominal():g} --delta {budget.delta:g} --json"
    wanted = (budget.nominal(), budget.delta, method, card["ledger"]["adjacency"]["relation"])
    kept = {
        "tables": "table",
        "attacker_sees": "from",
        "trials": "trials",
        "right": "accuracy",
        "confidence": "confidence",
    }
    try:
        listed = [
            {name: each[key] for name, key in kept.items()}
            | {"advantage_at_least": float(2 * ndtr(each["mu_at_least"] / 2) - 1)}
            for each in found["findings"]
            if (found["epsilon"], found["delta"], each["method"], each["neighbours"]) == wanted
        ]
    except (TypeError, LookupError):
        raise WeftError(f"the audit is not the output of `weft audit --json`. Make one with `{command}`") from None
    if not listed:
        raise WeftError(f"the audit has no attack on the method and budget of this release. Make one with `{command}`")
    return listed


def _describe_unit(card: Facts) -> str:
    unit, rows = card["privacy"]["unit"], card["ledger"]["adjacency"]["rows_per_unit"]
    if "tables" in card:
        return f"all rows, in all tables, of one value of {unit}"
    return "one row" if unit == "row" else f"all rows of one value of {unit}, of which at most {rows:,} are used"


def _write_texts(card: Facts, date: str = "") -> dict[str, Any]:
    """Return the statement, the list of what is not protected, and the registry record, from their template."""
    ledger, privacy = Ledger.from_dict(card["ledger"]), card["privacy"]
    capacity, pure, name = ledger.budget.capacity(ledger.accounting), ledger.accounting.is_pure, name_release(card)
    counted = Counter(entry.mechanism for entry in ledger.entries)
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in name.lower())
    tables = card["tables"].values() if "tables" in card else [card["table"]]
    text = load_template("weft.release", "evidence_texts.json.j2", "evidence").render(
        card=card,
        ledger=card["ledger"],
        release=name,
        open=OPEN,
        date=date,
        pure=pure,
        seeded=NOT_PRIVATE in card["stamps"],
        capacity=at_most(capacity),
        counted=[f"{each} ({format_count(n, 'charge')})" for each, n in counted.items()],
        bound=f"({at_most(privacy['epsilon'])}, {at_most(privacy['delta'], 3)})-differential privacy",
        unit=_describe_unit(card),
        lifetime=describe_lifetime(privacy["lifetime"]),
        slug="-".join(filter(None, plain.split("-"))) or "release",
        budget=str(ledger.budget),
        parameters={name: privacy[name] for name in ("epsilon", "delta")} | ({} if pure else {"rho": capacity}),
        charges="; ".join(f"{each.question} ({each.noise}, {ledger.share(each)})" for each in ledger.entries),
        hashes=", ".join(f"{entry['file']} {entry['sha256']}" for entry in tables),
    )
    texts: dict[str, Any] = json.loads(text)
    texts["statement"] = [
        {"section": name, "items": [{"what": what, "value": value, "open": value == OPEN} for what, value in items]}
        for name, items in texts["statement"]
    ]
    return texts


def build_registry_record(made: Facts, date: str) -> dict[str, Any]:
    """Return a record of tier 3 for the OpenDP deployments registry; `date` is the day of publication."""
    record: dict[str, Any] = _write_texts(made["card"], date)["registry"]
    return record


def render_statement(made: Facts) -> str:
    """Render the statement as Markdown."""
    text: str = load_template("weft.release", "statement.md.j2", "evidence").render(made=made, md=escape_markdown)
    return text


def render_page(made: Facts) -> str:
    """Render the page for a board as self-contained HTML."""
    shown: str = load_template("weft.release", "evidence.html.j2", "evidence").render(
        made=made,
        card=made["card"],
        epsilon=at_most(made["card"]["privacy"]["epsilon"]),
        delta=at_most(made["card"]["privacy"]["delta"], 3),
        unit=_describe_unit(made["card"]),
        percent=format_percent,
        above=lambda share: f"{at_most(100 * min(share, 1.0), 3)}%",
        open=[item["what"] for section in made["statement"] for item in section["items"] if item["open"]],
    )
    return shown


def write_evidence(card: Facts, folder: Path, audit: Sequence[Facts] = ()) -> tuple[dict[str, Any], list[Path]]:
    """Write the pack of a verified release, all files or none; return its figures and the files."""
    made = build_evidence(card, audit)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "registry.yaml": _write_json(build_registry_record(made, datetime.now(UTC).strftime("%Y-%m-%d"))),
        "statement.md": render_statement(made),
        "evidence.html": render_page(made),
        PACK: _write_json(made),
    }
    files = [folder / name for name in texts]
    with stage_files(*files) as drafts:
        for draft, text in zip(drafts, texts.values(), strict=True):
            draft.write_text(text, encoding="utf-8")
    return made, files


def _write_json(values: Any) -> str:
    return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def check_evidence(folder: Path) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Verify a pack without its release; yield the file, what was checked, what is wrong, and why it was not checked.

    Everything but the observed attacks is derived again from the card in the pack.
    """
    stored = json.loads((folder / PACK).read_bytes())
    if stored.get("weft") != __version__ or stored.get("evidence") != VERSION:
        yield PACK, "evidence", None, f"it was written by Weft {stored.get('weft')}: verify it with that version"
        return
    for agreed in stored["accountants"]:
        wrong = None if agreed["agrees"] else "the accountants disagree"
        yield PACK, "second accountant agrees", wrong, None
    made = _parse_rounded(json.dumps(build_evidence(stored["card"], stored["audit"])))
    # Numerical composition may differ in the last digits between versions of dp-accounting.
    told = _parse_rounded((folder / PACK).read_bytes())
    kept = made | {"accountants": told["accountants"]} if all(e["agrees"] for e in made["accountants"]) else made
    yield PACK, "follows from the card", None if kept == told else "it does not follow from the card in it", None
    if stored["audit"]:
        yield PACK, "observed attacks", None, "they were observed, and cannot be derived: run `weft audit` again"
    for name, render in (("evidence.html", render_page), ("statement.md", render_statement)):
        same = (folder / name).is_file() and (folder / name).read_text(encoding="utf-8") == render(stored)
        yield name, "matches evidence.json", None if same else f"{name} is missing, or was modified", None
    yield from _check_registry(folder / "registry.yaml", stored)


def _parse_rounded(text: str | bytes) -> Any:
    """Parse JSON with 9 digits of each number: the last ones depend on the machine."""
    return json.loads(text, parse_float=lambda digits: float(f"{float(digits):.9g}"))


def _check_registry(path: Path, stored: Facts) -> Iterator[tuple[str, str, str | None, str | None]]:
    try:
        given = _parse_rounded(path.read_bytes())
        date = given["deployment"]["basic"]["publication_date"]
    except (OSError, ValueError, TypeError, LookupError) as error:
        missing = "the record is missing" if isinstance(error, OSError) else None
        yield (
            path.name,
            "matches evidence.json",
            missing,
            None if missing else "only records in JSON syntax are checked",
        )
        return
    changed, left = _compare_record(_parse_rounded(json.dumps(build_registry_record(stored, date))), given)
    wrong = f"it states something else than the ledger in: {', '.join(changed)}" if changed else None
    yield path.name, "matches evidence.json", wrong, None
    if left:
        yield path.name, "statements of the curator", None, f"to be completed: {', '.join(left)}"


def _compare_record(own: Any, given: Any, place: str = "") -> tuple[list[str], list[str]]:
    """Return the places where a record differs from what Weft states, and those that are still open."""
    if isinstance(own, dict) and isinstance(given, dict):
        names = own.keys() | given.keys()
        pairs = [_compare_record(own.get(name), given.get(name), name) for name in sorted(names)]
        return [at for changed, _ in pairs for at in changed], [at for _, left in pairs for at in left]
    if OPEN in str(own):
        return [], [place] if OPEN in str(given) else []
    free = place == "status" or own is None
    return [] if own == given or free else [place], []
