"""What each test measured, as a table at the end."""
import pytest


@pytest.fixture
def figures(record_property):
    """figures(most=20, used=0.983): shares are printed as percentages, nanoseconds (NAME_ms) as milliseconds."""

    def record(**values):
        def text(name, value):
            if name.endswith("_ms"):
                return f"{name.removesuffix('_ms').replace('_', ' ')} {value / 1e6:.1f} ms"
            shown = f"{value:.2%}" if isinstance(value, float) and value <= 2 and "jain" not in name else \
                f"{value:.3f}" if isinstance(value, float) else value
            return f"{name.replace('_', ' ')} {shown}"

        record_property("figures", ", ".join(text(name, value) for name, value in values.items()))

    return record


def pytest_terminal_summary(terminalreporter):
    rows = [(report.nodeid.rpartition("::")[2], value) for outcome in ("passed", "failed") for report in
            terminalreporter.stats.get(outcome, []) for name, value in getattr(report, "user_properties", []) if name == "figures"]
    if rows:
        terminalreporter.section("figures")
        for name, value in sorted(rows):
            terminalreporter.line(f"{name}: {value}")
