import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pendingIn, workedOff } from './aftermath.ts';
import { missingCompiler } from './means.ts';
import { conclude, emptyRow, inFolder, type Row, skippedRow } from './row.ts';
import { createSender } from './sender.ts';
import { OPERATOR, startService } from './service.ts';

const SOURCE = fileURLToPath(new URL('./forgetful-disk.c', import.meta.url));
const CONTROL = new URL('./normal-synchronous.ts', import.meta.url).href;

export interface PowerLoss {
  /** Acknowledged events, per round, after which the power goes. */
  after: readonly number[];
  /** Of the writes that were not flushed, how many reach the disk all the same. Percent. */
  keepPercent: number;
  /** The power goes once all is processed. `asked`: and once the feed has shown what came of it. */
  once?: 'processed' | 'asked';
  /** The control: the service with synchronous=NORMAL. It must lose events, or the model proves nothing. */
  control?: boolean;
}

/** Cuts the power under load: of what was written, only what was flushed is there afterwards. */
export async function powerLoss({ after, keepPercent, once, control = false }: PowerLoss): Promise<Row> {
  const kept = keepPercent === 0 ? 'unflushed writes forgotten' : `${keepPercent} % of unflushed writes kept`;
  const when = once === undefined ? '' : `, once all is ${once === 'asked' ? 'shown' : once}`;
  const fault = control ? 'CONTROL, synchronous=NORMAL: power loss' : `power loss${when}, ${kept}`;
  const missing = missingCompiler();
  if (missing !== null) return skippedRow(fault, missing);
  const row = emptyRow(fault);
  await inFolder(async (tools) => {
    const library = join(tools, 'forgetful-disk.so');
    execFileSync('cc', ['-O1', '-shared', '-fPIC', '-o', library, SOURCE, '-ldl', '-lpthread']);
    for (const [round, count] of after.entries()) {
      await inFolder(async (folder) => {
        const database = join(folder, 'mirror.db');
        const durable = join(folder, 'durable');
        mkdirSync(durable);
        const sender = createSender(`power${round}`);
        const service = startService({
          database,
          env: {
            LD_PRELOAD: library,
            FORGETFUL_FILE: database,
            FORGETFUL_DURABLE: durable,
            FORGETFUL_KEEP_PERCENT: String(keepPercent),
            FORGETFUL_SEED: String(round + 1),
          },
          nodeArgs: control ? ['--import', CONTROL] : [],
        });
        const at = await service.listening;
        if (at === null) throw new Error(service.output());
        await sender.load(at.port, () => {
          if (sender.acknowledged.length < count) return false;
          if (once === undefined) service.child.kill('SIGKILL');
          return true;
        });
        if (once !== undefined) {
          await workedOff(database);
          if (once === 'asked') await showChanges(at.opsUrl);
          service.child.kill('SIGKILL');
        }
        await service.exited;
        if (once !== undefined) row.undone = (row.undone ?? 0) + pendingIn(join(durable, 'mirror.db'));
        await conclude(row, `after ${count}`, sender, join(durable, 'mirror.db'));
        sender.close();
      });
    }
  });
  if (control) judgeControl(row);
  return row;
}

async function showChanges(opsUrl: string): Promise<void> {
  const headers = { authorization: `Bearer ${OPERATOR}` };
  const answer = await fetch(`${opsUrl}/api/changes?after=0`, { headers });
  if (answer.status !== 200) throw new Error(`the feed answered ${answer.status}: ${await answer.text()}`);
  await answer.arrayBuffer();
}

/** Here a loss is what is wanted, and its consequences are no faults. */
function judgeControl(row: Row): void {
  row.isControl = true;
  row.note = 'must lose some, or the model proves nothing';
  row.faults = row.lost > 0 ? [] : ['nothing was lost: the model does not forget'];
}
