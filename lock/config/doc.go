// Package config reads the configuration file that the library, the reaper and the command line share.
//
// # The file
//
//	policies:
//	  - name: imports
//	    match: "imports/*"
//	    ttl: 5m
//	    max_hold: 6h
//
// config.yaml at the top of the repository has and explains all keys, with their defaults. [Load] is
// strict: it refuses everything that it does not understand or would have to guess. It reports all
// mistakes of a file at once, each with its line, key, value and rule:
//
//	config.yaml:6:10: policies[0].ttl: 50ms: must be at least 100ms
//	config.yaml:7:5: policies[0].max_hodl: is not a known key; did you mean max_hold?
//
// If the file is not YAML, or has features that are not accepted (anchors, aliases, tags, merge
// keys, several documents), Load reports only that. An empty file is a mistake: {} means all
// defaults. A file has at most 1 MiB and 40,000 tokens of YAML, nested at most 20 deep, which
// suffices for 1,000 policies. A file contains no password, only the name of another file or of an
// environment variable that has the password. Names of files are relative to the folder of the
// configuration file.
package config
