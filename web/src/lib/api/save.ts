import { send } from "./client";
import { type ApiError, problemOf } from "./problem";

/** Saves a file of the API. It is fetched like every answer, so that the org and the session go with the request. */
export async function save(url: string, name: string): Promise<ApiError | undefined> {
  const response = await send(new Request(url));
  if (!response.ok) return problemOf(response);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
  return undefined;
}
