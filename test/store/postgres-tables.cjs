// For drizzle-kit, which takes every value that a module exports for a table.
module.exports = require('./postgres-schema.ts').tables;
