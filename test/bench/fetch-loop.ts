/** Reads a list of vendors page by page and takes its JSON apart, and nothing else: what a full sync is compared with. */
const [url, pageSize] = process.argv.slice(2);

let vendors = 0;
for (let page = 1; ; page += 1) {
  const answer = await fetch(`${url}/vendors?page=${page}&perPage=${pageSize}`);
  const { data } = (await answer.json()) as { data: unknown[] };
  if (data.length === 0) break;
  vendors += data.length;
}
process.stdout.write(`Fetched: ${vendors}\n`);
// Until somebody has asked what it took.
setInterval(() => undefined, 60_000);
