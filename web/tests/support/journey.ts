// The frame of a journey: a browser, a page that is signed in, and no trouble on it.
import assert from "node:assert/strict";
import { test } from "node:test";

import type { BrowserContext, Page } from "playwright-core";

import { launch, open, signIn, watchForTrouble } from "./browser.ts";
import { Wire } from "./wire.ts";

interface Walk {
  page: Page;
  context: BrowserContext;
  /** Everything between the browser and the server, if the journey is `wired`. */
  wire: Wire;
}

/** Runs a journey; an error on the page or a broken policy fails it as well. */
export function journey(name: string, walk: (walk: Walk) => Promise<void>, { wired = false, skip = false }: { wired?: boolean; skip?: string | false } = {}): void {
  test(name, { timeout: 300_000, skip }, async () => {
    const browser = await launch();
    const wire = await Wire.open();
    try {
      const context = await open(browser, {}, wired ? wire.address : undefined);
      // Repair and deletion take seconds; only a broken journey waits this long.
      context.setDefaultTimeout(90_000);
      const page = await context.newPage();
      const trouble = watchForTrouble(page);
      await signIn(page);
      await walk({ page, context, wire });
      assert.deepEqual(trouble, []);
    } finally {
      await browser.close();
      wire.close();
    }
  });
}
