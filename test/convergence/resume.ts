import { runResume } from './resume-run.ts';

/** In full size: `node test/convergence/resume.ts [VENDORS]`. */
const result = await runResume(Number(process.argv[2] ?? 50_000), 300_000);
process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
