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

/** The pages of a list that a window needs. */
export function pagesOf({ first, end }: Window, size: number): number[] {
  if (end <= first) return [];
  const pages: number[] = [];
  for (let page = Math.floor(first / size); page <= Math.floor((end - 1) / size); page += 1) pages.push(page);
  return pages;
}
