// Package sql has tests alone: they show on a real SQL database that fencing tokens keep
// off whoever has lost the lock, as package lock/fence describes it. It is a module of its
// own, so that nobody who imports the library gets the database.
package sql
