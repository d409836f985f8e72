import { expect, test } from "vitest";

import { document } from "./manifest";

test("a manifest is written as the command line reads it", () => {
  const manifest = {
    kind: "Service" as const,
    name: "web",
    project: "shop",
    template: "web@1",
    parameters: { image: "nginx:1.27", replicas: 2, args: ["-v", "a: b"], variables: { ON: "yes", EMPTY: "" }, none: {} },
  };
  expect(document(manifest)).toBe(`kind: Service
name: web
project: shop
template: web@1
parameters:
  image: nginx:1.27
  replicas: 2
  args:
    - "-v"
    - "a: b"
  variables:
    "ON": "yes"
    EMPTY: ""
  none: {}
`);
});
