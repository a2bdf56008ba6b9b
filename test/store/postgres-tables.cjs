// For drizzle-kit, which takes every value that a module exports for a table.
module.exports = require('../../src/store/schema.postgres.ts').tables;
