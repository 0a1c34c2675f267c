// Package config reads skein's configuration: a TOML file, the environment
// and flags, each stronger than the one before, into one checked Config.
//
// Every key is described once, in the table of keys: its place in Config, its
// limits and its documentation. The example file, the environment's names and
// Show come from the same table. An unknown key, a wrong type or a value out of
// range is an Error with file, line, key and a hint; all of them are reported
// at once.
//
// A key is reloadable because its value lies in Live: the constructor of the key
// asks for a place in Fixed or in Live, and the mark follows from that. A daemon
// keeps a Current; its parts get Fixed, and Live from Current alone.
//
// Non-goals: it opens nothing but the file it is given, watches nothing, and
// keeps no state.
//
// Goroutines: none.
package config
