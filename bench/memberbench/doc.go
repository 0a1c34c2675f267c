// Package memberbench compares the membership of many hosts with
// hashicorp/memberlist: idle traffic, how soon a death is known, false alarms.
//
// Goroutines: those of the hosts, which end when the group does.
package memberbench
