import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../convergence/service.ts';
import { freePorts } from '../support/ports.ts';

/** Whether this machine has the program; Debian's package `prometheus` brings both. */
export function installed(program: 'prometheus' | 'promtool'): boolean {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Scraped and judged every second, where the documented scrape takes fifteen. */
const INTERVAL = '1s';

export interface Prometheus {
  /** Names of the alerts that fire now, of those that have been judged. */
  firing(): Promise<string[]>;
  query(expr: string): Promise<number | null>;
  stop(): Promise<void>;
}

/** The real one, scraping `target` (host:port) by the rules in docs/monitoring. */
export async function startPrometheus(target: string, token: string): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'prometheus-'));
  copyFileSync(new URL('../../docs/monitoring/alerts.yml', import.meta.url), join(folder, 'alerts.yml'));
  writeFileSync(join(folder, 'token'), token, { mode: 0o600 });
  writeFileSync(
    join(folder, 'prometheus.yml'),
    [
      `global: { scrape_interval: ${INTERVAL}, evaluation_interval: ${INTERVAL} }`,
      'rule_files: [alerts.yml]',
      'scrape_configs:',
      '  - job_name: compliance-mirror',
      `    authorization: { credentials_file: ${join(folder, 'token')} }`,
      `    static_configs: [{ targets: ['${target}'] }]`,
    ].join('\n'),
  );
  const [port] = (await freePorts(1)) as [number];
  const child: ChildProcess = spawn(
    'prometheus',
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const ask = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
    return ((await response.json()) as { data: unknown }).data;
  };
  await eventually('Prometheus to be ready', () =>
    fetch(`http://127.0.0.1:${port}/-/ready`).then(
      (response) => response.ok,
      () => false,
    ),
  );
  return {
    async firing() {
      const { alerts } = (await ask('alerts')) as {
        alerts: { state: string; labels: { alertname: string } }[];
      };
      return [
        ...new Set(alerts.filter((one) => one.state === 'firing').map((one) => one.labels.alertname)),
      ].sort();
    },
    async query(expr) {
      const { result } = (await ask(`query?query=${encodeURIComponent(expr)}`)) as {
        result: { value: [number, string] }[];
      };
      return result[0] === undefined ? null : Number(result[0].value[1]);
    },
    async stop() {
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
