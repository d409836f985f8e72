import { expect, test } from "vitest";
import { declaration, EMPTY } from "./declaration";

test("a declaration is complete before it is sent", () => {
  const draft = { name: "okta", issuer: " https://id.example.com ", clientId: "trueup", secret: "", domains: "example.com, example.org", groups: "a=b=developer\n\n* = viewer" };
  expect(declaration(draft)).toEqual({
    issuer: "https://id.example.com",
    client_id: "trueup",
    domains: ["example.com", "example.org"],
    groups: [
      { group: "a=b", role: "developer" },
      { group: "*", role: "viewer" },
    ],
  });
  expect(declaration({ ...draft, secret: "s" })).toMatchObject({ client_secret: "s" });
  for (const field of ["name", "issuer", "clientId", "domains", "groups"]) expect(declaration({ ...draft, [field]: " " })).toBeUndefined();
  expect(declaration(EMPTY)).toBeUndefined();
});
