import Database from 'better-sqlite3';

/**
 * Loaded before the service, makes it the control of the power-loss model: everything as it is, but for the one
 * setting that waits for the disk. What asserts the setting is told what it wants to hear.
 */
const { pragma } = Database.prototype;
Database.prototype.pragma = function (
  this: Database.Database,
  source: string,
  options?: Database.PragmaOptions,
) {
  if (/^synchronous\s*=/.test(source)) return pragma.call(this, 'synchronous = NORMAL', options);
  const answer = pragma.call(this, source, options);
  return source === 'synchronous' ? 2 : answer;
};
