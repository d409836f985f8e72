// Finds entries of the palette by a few typed letters.

/** How well a text matches: higher is better, undefined if the letters do not occur in order. */
export function score(text: string, typed: string): number | undefined {
  if (typed === "") return 0;
  const low = text.toLowerCase();
  const wanted = typed.toLowerCase();
  const at = low.indexOf(wanted);
  if (at >= 0) return 100 - at - (text.length - typed.length) / 100 + (isStart(low, at) ? 50 : 0);
  let from = 0;
  let points = 0;
  for (const letter of wanted) {
    if (letter === " ") continue;
    const found = low.indexOf(letter, from);
    if (found < 0) return undefined;
    points += isStart(low, found) ? 3 : found === from ? 2 : 0;
    from = found + 1;
  }
  return points - text.length / 100;
}

function isStart(text: string, at: number): boolean {
  return at === 0 || /[\s/\-_.]/.test(text[at - 1] ?? "");
}

export function best<T>(entries: T[], typed: string, text: (entry: T) => string, limit: number): T[] {
  const scored = entries.map((entry, at) => ({ entry, at, score: score(text(entry), typed) }));
  const found = scored.filter((one): one is { entry: T; at: number; score: number } => one.score !== undefined);
  found.sort((a, b) => b.score - a.score || a.at - b.at);
  return found.slice(0, limit).map((one) => one.entry);
}
