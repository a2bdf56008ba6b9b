/**
 * Reads a list of vendors page by page and takes its JSON apart, and nothing else: what a full sync is compared with. Once more
 * for each message, and says of each pass what it took, without the start of the process.
 */
const [url, pageSize] = process.argv.slice(2);

let passes = 0;
process.on('message', async (message) => {
  if (message !== 'pass') return;
  const began = performance.now();
  const before = process.cpuUsage();
  for (let page = 1; ; page += 1) {
    const answer = await fetch(`${url}/vendors?page=${page}&perPage=${pageSize}`);
    const { data } = (await answer.json()) as { data: unknown[] };
    if (data.length === 0) break;
  }
  const { user, system } = process.cpuUsage(before);
  const took = { seconds: (performance.now() - began) / 1_000, cpuSeconds: (user + system) / 1e6 };
  passes += 1;
  process.stdout.write(`Pass ${passes}: ${JSON.stringify(took)}\n`);
});
process.channel?.ref();
process.stdout.write('Ready\n');
