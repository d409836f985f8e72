import adapter from "@sveltejs/adapter-static";

/** @type {import("@sveltejs/kit").Config} */
export default {
  kit: {
    // One page for every route: the server answers each deep link with it. The server also sends the
    // Content-Security-Policy, with the hash of the bootstrap script of this build.
    adapter: adapter({ fallback: "index.html", precompress: true }),
    // A page that was loaded before an update offers a reload instead of failing at the next chunk.
    version: { pollInterval: 60_000 },
    output: { preloadStrategy: "modulepreload" },
  },
};
