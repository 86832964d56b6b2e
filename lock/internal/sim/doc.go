// Package sim is the simulation of package lock: random histories of many clients under random
// faults, in virtual time. It has tests only.
//
// [draw] draws the history of a seed: a header with the properties of all, and one line for each
// operation and each fault, see [step]. The same text can be read and run again, and shrunk to the
// lines that matter. The other files run the lines: each worker, process and source of faults runs
// its own lines in their order. The checks stand beside what they check.
package sim
