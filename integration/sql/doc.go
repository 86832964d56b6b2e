// Package sql has only tests. They show on a real SQL database that fencing tokens stop a client
// that has lost the lock, as package lock/fence describes. It is a module of its own, so that
// programs that import the library do not depend on the database.
package sql
