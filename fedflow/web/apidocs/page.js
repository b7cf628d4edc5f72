// Shows the description of the server that this page came from.
SwaggerUIBundle({
  url: "/v1/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: -1,
  filter: true,
  tagsSorter: "alpha",
  validatorUrl: null,
});
