// Which rows of a long list are on screen.

export interface Window {
  first: number;
  /** One past the last. */
  end: number;
}

/** The rows to draw: those in view and a few on each side, so that scrolling meets no blank. */
export function rowsInView(top: number, height: number, row: number, total: number, spare = 10): Window {
  const first = Math.max(0, Math.floor(top / row) - spare);
  const end = Math.min(total, Math.ceil((top + height) / row) + spare);
  return { first: Math.min(first, end), end };
}
