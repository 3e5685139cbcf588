"""The table of a benchmark: each figure with its peers and its bars."""
import statistics


def at_least(ours, peers, name, factor):
    return f">= {factor:g}x {name}", statistics.median(ours) >= factor * statistics.median(peers[name])


def at_most(ours, peers, name, factor):
    return f"<= {factor:g}x {name}", statistics.median(ours) <= factor * statistics.median(peers[name])


def below(ours, limit, unit):
    return f"<= {limit:g} {unit}", statistics.median(ours) <= limit


class Report:
    """Prints the rows, and keeps them for runs.write_result."""

    def __init__(self):
        self.rows = []

    def add(self, figure, unit, ours, peers, *bars):
        """Adds our samples and those of each peer; bars are (text, is_met). A figure without a bar only informs."""
        unmet = [text for text, is_met in bars if not is_met]
        self.rows.append({
            "figure": figure, "value": statistics.median(ours), "unit": unit, "bar": ", ".join(text for text, _ in bars) or "none",
            "met": not unmet, "peers": {name: statistics.median(samples) for name, samples in peers.items()},
            "spread": [min(ours), max(ours)], "peer_spreads": {name: [min(samples), max(samples)] for name, samples in peers.items()}})
        print(f"\n{figure}, {unit}")
        for name, samples in {"Trainyard": ours, **peers}.items():
            middle = statistics.median(samples)
            ratio = "" if name == "Trainyard" or middle == 0 else f"   Trainyard: {statistics.median(ours) / middle:.3g}x"
            print(f"  {name:28} {middle:10.4g}   {min(samples):.4g} to {max(samples):.4g}{ratio}")
        for text, is_met in bars:
            print(f"  bar: {text}: {'met' if is_met else 'NOT MET'}", flush=True)
