// Leads from FATE-Board's addresses (/index.html#/dashboard?job_id=...) to the pages here.

/** Return the address here for what stands behind `#` in one of FATE-Board. */
function placeOf(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const given = new URLSearchParams(query);
  if (path === "/running") return "/board/jobs?status=waiting&status=running";
  if (path === "/history") return "/board/jobs";
  if (path !== "/dashboard" && path !== "/details") return "/board/";
  const [job, role, party] = ["job_id", "role", "party_id"].map((name) => encodeURIComponent(given.get(name) ?? ""));
  if (!job) return "/board/jobs";
  return role && party ? `/board/jobs/${job}/${role}/${party}` : `/board/jobs/${job}`;
}

location.replace(placeOf(location.hash));
