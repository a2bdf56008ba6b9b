import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { STYLE as SANDBOX } from '../sandbox/page/layout.tsx';
import { VERDICTS } from '../src/mirror/problems.ts';
import { STYLE as OPERATORS } from '../src/ops/pages/style.ts';

/** Of an event, a delivery or a sync run; those that are neither good nor bad have no rule. */
const STATES = [
  ...['pending', 'processed', 'failed', 'complete', 'incomplete'],
  ...['accepted', 'quarantined', 'rejected'],
];

/** `computed`: what pages make classes of at run time, besides words of their own. */
const PAGES = [
  {
    what: 'the operators’ pages',
    folders: ['src/ops/pages'],
    style: OPERATORS,
    computed: [...VERDICTS, ...STATES],
  },
  {
    what: 'the sandbox’s pages',
    folders: ['sandbox/page', 'sandbox/oauth'],
    style: SANDBOX,
    computed: [],
  },
];

describe.each(PAGES)('of $what', ({ folders, style, computed }) => {
  const used = new Set([...folders.flatMap(sources).flatMap(classesIn), ...computed]);
  const ruled = new Set(
    rulesOf(style)
      .flatMap((selector) => [...selector.matchAll(/\.([a-z][\w-]*)/g)])
      .map(([, name]) => name!),
  );

  it('every class has a rule in the style sheet', () => {
    expect([...used].filter((name) => !ruled.has(name)).sort()).toEqual([]);
  });

  it('every rule of the style sheet has a class that it is for', () => {
    expect([...ruled].filter((name) => !used.has(name)).sort()).toEqual([]);
  });
});

function sources(folder: string): string[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.tsx'));
  return names.map((name) => readFileSync(`${folder}/${name}`, 'utf8'));
}

/** The words in `class` and `className`, as attributes and as properties, in the types of such, and the widths of tiles, which are classes too. */
function classesIn(source: string): string[] {
  const plain = [
    ...source.matchAll(/\b(?:class|className|width)=["']([a-z][^"']*)["']|\bclassName: '([^']*)'/g),
  ];
  const made = [...source.matchAll(/\bclass(?:Name)?=\{((?:[^{}]|\{[^{}]*\})*)\}/g)].flatMap(
    ([, expression]) => [
      // What is compared or looked up is no class.
      ...expression!.replaceAll(/[!=]== '[^']*'|\w\('[^']*'\)/g, '').matchAll(/'([^']*)'|`([^`]*)`/g),
    ],
  );
  const typed = [...source.matchAll(/\btype \w+Class = ([^;]*);/g)].flatMap(([, union]) => [
    ...union!.matchAll(/'([^']*)'/g),
  ]);
  const words = [...plain, ...made, ...typed].map(([, one, other]) =>
    (one ?? other)!.replaceAll(/\$\{[^}]*\}/g, ' '),
  );
  return words.flatMap((text) => text.split(/\s+/)).filter((word) => word !== '');
}

/** Selectors alone: what stands in braces has dots of its own, and so have media queries. */
function rulesOf(style: string): string[] {
  return [...style.replaceAll(/\/\*.*?\*\//gs, '').matchAll(/([^{}]+)\{/g)]
    .map(([, selector]) => selector!.trim())
    .filter((selector) => !selector.startsWith('@'));
}
