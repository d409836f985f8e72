import type { ServerResponse } from "node:http";

import { sveltekit } from "@sveltejs/kit/vite";
import tailwindcss from "@tailwindcss/vite";
import { defineConfig } from "vitest/config";

import { devSession } from "./dev/session.ts";

/** The Trueup that `npm run dev` talks to. */
const server = process.env["TRUEUP_URL"] ?? "http://127.0.0.1:7410";
const proxy = { "/v1": { target: server, configure: flush }, "/docs": server };

/** Streams begin with their headers: without this the proxy holds them back until the first event. */
function flush(proxy: { on(event: "proxyRes", told: (from: unknown, to: unknown, res: ServerResponse) => void): unknown }): void {
  proxy.on("proxyRes", (_from, _to, response) => setImmediate(() => response.flushHeaders()));
}

export default defineConfig({
  plugins: [tailwindcss(), sveltekit(), devSession(server)],
  // Data URLs would need an exception in the Content-Security-Policy.
  build: { assetsInlineLimit: 0, target: "es2023" },
  server: { proxy },
  preview: { proxy },
  test: { include: ["src/**/*.test.ts"] },
});
