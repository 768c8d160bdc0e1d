// The API from its own OpenAPI document, without a library from another host.

import { $, h } from "./dom.js";

const document_ = await (await fetch("/openapi.json")).json();
const nameOf = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(nameOf).join(" or ");
  if (schema.type === "array") return `list of ${nameOf(schema.items)}`;
  return schema.type ?? "anything";
};
const link = (schema) => {
  const name = nameOf(schema), model = name.replace(/^list of /, "");
  return model in document_.components.schemas ? h("a", { href: `#model-${model}` }, name) : h("span", {}, name);
};
const fields = (schema) => h("table", {}, Object.entries(schema.properties ?? {}).map(([name, field]) =>
  h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, link(field)), h("td", { class: "soft small" }, field.description ?? ""))));

function operation(path, method, about) {
  const body = Object.values(about.requestBody?.content ?? {})[0]?.schema;
  const good = Object.entries(about.responses).find(([status]) => status.startsWith("2"));
  const kinds = Object.entries(good?.[1].content ?? {});
  const multipart = "multipart/form-data" in (about.requestBody?.content ?? {});
  const data = multipart ? " -F files=@photo.jpg" : body ? " -H 'content-type: application/json' -d '{…}'" : "";
  return h("article", { class: "card stack tight" },
    h("h3", {}, h("code", {}, `${method.toUpperCase()} ${path}`)), h("p", {}, about.description ?? about.summary),
    (about.parameters ?? []).length ? h("table", {}, about.parameters.map((one) => h("tr", {}, h("td", {}, h("code", {}, one.name)), h("td", {}, nameOf(one.schema)), h("td", { class: "soft small" }, one.description ?? one.schema.description ?? `in the ${one.in}`)))) : null,
    body ? h("div", { class: "small" }, "Takes ", link(body), multipart ? " as a form" : "") : null,
    h("div", { class: "small" }, `Gives ${good?.[0]}: `, kinds.length ? kinds.map(([kind, one]) => (one.schema?.$ref || one.schema?.items ? link(one.schema) : kind)) : "a file"),
    h("pre", { class: "small" }, h("code", {}, `curl -X ${method.toUpperCase()}${data} ${location.origin}${path}`)));
}

$("#main").append(h("div", { class: "stack" }, h("h1", {}, "The API"), h("p", {}, document_.info.description),
  h("p", { class: "small" }, "The same for programs: ", h("a", { href: "/openapi.json" }, "openapi.json"), ". A problem is answered with 4xx and ", link({ $ref: "/Problem" }), "."),
  Object.entries(document_.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, about]) => operation(path, method, about))),
  h("h2", {}, "Models"),
  Object.entries(document_.components.schemas).map(([name, schema]) =>
    h("article", { class: "card stack tight", id: `model-${name}` }, h("h3", {}, name), h("p", { class: "soft" }, schema.description ?? ""), fields(schema)))));
