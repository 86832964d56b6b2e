// Package sql has tests alone: they show on a real SQL database that fencing tokens keep
// off a client that has lost the lock, as package lock/fence describes it. It is a module of
// its own, so that programs that import the library do not get the database.
package sql
