// The service, as functions. A problem is thrown as an Error with the service's own sentence.

async function answered(response) {
  const kind = response.headers.get("content-type") ?? "";
  const body = kind.includes("json") ? await response.json() : await response.text();
  if (!response.ok) {
    const error = new Error(body.message ?? `the service answered ${response.status}`);
    error.status = response.status;
    throw error;
  }
  return body;
}

export async function call(method, path, body) {
  const request = { method, headers: {} };
  if (body instanceof FormData) request.body = body;
  else if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["content-type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(`/api${path}`, request);
  } catch {
    throw new Error("the service does not answer: is it still running? Everything that was acknowledged is on disk.");
  }
  if (response.status === 429) {
    await new Promise((done) => setTimeout(done, 500 + 500 * Math.random()));
    return call(method, path, body);
  }
  return answered(response);
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);

// Pictures are kept by the browser under their address, so it has a key: numbers are the same in every data folder.
const address = (project, photo, kind, given) => `/api/projects/${project}/photos/${photo}/${kind}?${new URLSearchParams(given)}`;
export const thumbnail = (project, { id, key }) => address(project, id, "thumbnail", { key });
export const picture = (project, { id, key }) => address(project, id, "picture", { key });
export const heatMap = (project, photo, klass, classifier) => address(project, photo, "heat-map", { class_id: klass, classifier });
