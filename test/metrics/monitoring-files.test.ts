import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createMetrics } from '../../src/platform/metrics.ts';
import { installed } from './prometheus.ts';

const read = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
const alerts = read('monitoring/alerts.yml');
const dashboard = JSON.parse(read('monitoring/grafana-dashboard.json')) as {
  panels: { title: string; targets: { expr: string }[] }[];
};
const operations = read('operations.md');

const ALERTS = [...alerts.matchAll(/- alert: (\w+)/g)].map(([, name]) => name!);
const EXPRESSIONS = dashboard.panels.flatMap((panel) => panel.targets.map((target) => target.expr));

/** Headings of the third level under one of the second. */
function headingsUnder(title: string): string[] {
  const [, part] = new RegExp(`\\n## ${title}\\n([\\s\\S]*?)(?=\\n## |$)`).exec(operations) ?? [];
  return [...(part ?? '').matchAll(/^### (\S+)$/gm)].map(([, name]) => name!);
}

async function metricNames(): Promise<Set<string>> {
  const all = await createMetrics().registry.getMetricsAsJSON();
  return new Set(
    all.flatMap(({ name, type }) =>
      // The client's own types say `histogram` by number or by word.
      String(type) === 'histogram' ? [name, `${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
    ),
  );
}

const metricsIn = (text: string) => [...text.matchAll(/compliance_mirror_\w+/g)].map(([name]) => name);

describe('the documentation', () => {
  it('has a heading for every alert, and none for another', () => {
    expect(ALERTS.length).toBeGreaterThan(10);
    expect(headingsUnder('Alerts').toSorted()).toEqual(ALERTS.toSorted());
  });

  it('says under each heading what is seen, how to look and what to do', () => {
    const sections = operations.slice(operations.indexOf('\n## Alerts\n')).split(/^### /m).slice(1);
    expect(sections).toHaveLength(ALERTS.length);
    for (const section of sections) {
      expect(section, section.slice(0, 30)).toMatch(
        /\*\*Symptom:\*\* .+\n- \*\*Check:\*\* .+\n- \*\*Command:\*\* .+/,
      );
    }
  });

  it('is where each alert points to', () => {
    const runbooks = [...alerts.matchAll(/runbook: (\S+)/g)].map(([, target]) => target!);
    expect(runbooks).toEqual(ALERTS.map((name) => `docs/operations.md#${name.toLowerCase()}`));
  });
});

describe('the dashboard and the alert rules', () => {
  it('speak only of metrics that there are', async () => {
    const names = await metricNames();
    const used = [...new Set([...metricsIn(alerts), ...EXPRESSIONS.flatMap(metricsIn)])];
    expect(used.length).toBeGreaterThan(25);
    expect(used.filter((name) => !names.has(name))).toEqual([]);
  });

  it('leave no metric of ours out of sight', async () => {
    const shown = new Set([...EXPRESSIONS.flatMap(metricsIn), ...metricsIn(alerts)]);
    const ours = (await createMetrics().registry.getMetricsAsJSON())
      .map((metric) => metric.name)
      .filter((name) => !/_(nodejs|process)_/.test(name));
    const unseen = ours.filter((name) => !shown.has(name) && !shown.has(`${name}_bucket`));
    expect(unseen).toEqual([]);
  });

  it.skipIf(!installed('promtool'))(
    'are well-formed to promtool (skipped where Debian’s package prometheus is not installed)',
    () => {
      const folder = mkdtempSync(join(tmpdir(), 'rules-'));
      try {
        // A dashboard's variables are no PromQL; as a rule, each of its expressions is looked at as well.
        const records = EXPRESSIONS.map((expr, index) => {
          const plain = expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*');
          return `      - record: panel:${index}\n        expr: ${JSON.stringify(plain)}\n`;
        });
        const panels = join(folder, 'panels.yml');
        writeFileSync(panels, `groups:\n  - name: panels\n    rules:\n${records.join('')}`);
        const own = new URL('../../docs/monitoring/alerts.yml', import.meta.url).pathname;
        const said = execFileSync('promtool', ['check', 'rules', own, panels], { encoding: 'utf8' });
        expect(said).toContain(`SUCCESS: ${ALERTS.length} rules found`);
        expect(said).toContain(`SUCCESS: ${EXPRESSIONS.length} rules found`);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  );

  it('are one for each verdict that is not well and lasts', () => {
    const asked = [...alerts.matchAll(/compliance_mirror_verdict\{verdict="(\w+)"\}/g)].map(
      ([, verdict]) => verdict,
    );
    expect(asked).toEqual(['action_required', 'unreachable', 'stale', 'catching_up']);
  });
});
