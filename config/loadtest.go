package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
	scenario "github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
)

// LoadTests is [load]: what load tests may do from this host.
type LoadTests struct {
	Enabled  bool
	Owners   []string                // whose; "*": everybody's
	MaxRate  int64                   // requests a second; 0: as the targets say
	MaxUsers int64                   // 0: any number
	Targets  map[string]guard.Limits // what may be hit, and how hard
	Secrets  string                  // directory; empty: none
	User     string                  // whose rights the engine has; empty: the daemon's own
}

const (
	targetTable = "a table of \"HOST:PORT\" = requests a second, or = { max_rate, ramp, connections, allow_break, proof }"
	// maxLoadOwners bounds load.owners.
	maxLoadOwners = 256
)

func loadKeys() []key {
	return []key{
		boolKey("load.enabled", func(c *Live) *bool { return &c.LoadTests.Enabled },
			"Whether load tests of the cluster may run from this host: docs/load.md."),
		spec[Live]{
			name: "load.owners", kind: "a list of strings",
			doc: []string{
				"Whose: users, such as \"user:ann\" or \"uid:1000\", groups, as \"group:qa\", or \"*\" for",
				"everybody. Empty: nobody's. At most 256.",
			},
			parse: func(s string) (any, error) { return splitList(s), nil }, set: setLoadOwners,
			show: func(c *Live) string {
				quoted := make([]string, len(c.LoadTests.Owners))
				for i, n := range c.LoadTests.Owners {
					quoted[i] = quote(n)
				}
				return "[" + strings.Join(quoted, ", ") + "]"
			},
		}.key(),
		intKey("load.max_rate", func(c *Live) *int64 { return &c.LoadTests.MaxRate }, 0, scenario.MaxRate,
			"Requests a second that this host sends at most. 0: as load.targets says."),
		intKey("load.max_users", func(c *Live) *int64 { return &c.LoadTests.MaxUsers }, 0, scenario.MaxUsers,
			"Users at a time of this host. 0: any number."),
		spec[Live]{
			name: "load.targets", kind: targetTable,
			doc: []string{
				"The only targets, each a host or a network with its port or ports, and how many requests",
				"a second it gets at most from this host, 0: as max_rate says. Addresses of this machine",
				"and of private networks need an entry of their network. Link-local and metadata",
				"addresses and the mesh get nothing, whatever stands here. A table says more: max_rate,",
				"ramp (requests a second more with each second of a test), connections (at a time),",
				"allow_break (a test goes on that breaks it), proof (nothing is sent before the target",
				"answers at /.well-known/skein-load with the cluster's id).",
				"\"api.staging.example.org:443\" = { max_rate = 2000, ramp = 100, connections = 4000 }",
				"\"10.20.0.0/16:8000-8999\" = 500",
			},
			parse: parseLoadTargets, set: setLoadTargets, show: showLoadTargets,
		}.key(),
		stringKey("load.secrets_dir", func(c *Live) *string { return &c.LoadTests.Secrets }, optionalPath,
			"Directory of secrets for ${secret.NAME}, a file for each. Empty: none."),
		stringKey("load.user", func(c *Live) *string { return &c.LoadTests.User }, groupName,
			"User whose rights the process that sends the requests has; only root can give them. Files",
			"of secrets_dir are read with those. Empty: the daemon's own."),
	}
}

func setLoadOwners(c *Live, v any) error {
	list, ok := v.([]any)
	if !ok {
		return errType{"a list of strings", typeName(v)}
	}
	if len(list) > maxLoadOwners {
		return fmt.Errorf("%d names, at most %d are allowed", len(list), maxLoadOwners)
	}
	names := make([]string, 0, len(list))
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return errType{"a list of strings", "a list with " + typeName(e)}
		}
		if s != "*" && !cluster.Printable(s, cluster.MaxPrincipal) || !strings.Contains(s, ":") && s != "*" {
			return fmt.Errorf("%s is neither a user, as \"user:ann\", nor a group, as \"group:qa\", nor \"*\"", strconv.Quote(s[:min(len(s), 64)]))
		}
		names = append(names, s)
	}
	slices.Sort(names)
	c.LoadTests.Owners = slices.Compact(names)
	return nil
}

// parseLoadTargets reads "api.example.org:443=2000,10.0.0.0/8:80=0/ramp=100/proof".
func parseLoadTargets(s string) (any, error) {
	table := map[string]any{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, limits, ok := strings.Cut(part, "=")
		words := strings.Split(limits, "/")
		n, err := strconv.ParseInt(words[0], 10, 64)
		if !ok || err != nil {
			return nil, errType{"HOST:PORT=RATE,...", strconv.Quote(part)}
		}
		one := map[string]any{"max_rate": n}
		for _, w := range words[1:] {
			name, value, valued := strings.Cut(w, "=")
			if !valued {
				one[name] = true
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, errType{"HOST:PORT=RATE/NAME=NUMBER,...", strconv.Quote(part)}
			}
			one[name] = n
		}
		table[name] = one
	}
	return table, nil
}

func setLoadTargets(c *Live, v any) error {
	table, ok := v.(map[string]any)
	if !ok {
		return errType{targetTable, typeName(v)}
	}
	targets := make(map[string]guard.Limits, len(table))
	for _, name := range sortedKeys(table) {
		limits, err := guard.LimitsOf(table[name])
		if err != nil {
			return fmt.Errorf("%s: %w", quote(name), err)
		}
		targets[name] = limits
	}
	_, err := guard.ParseList(targets)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return errors.New(first)
	}
	c.LoadTests.Targets = targets
	return nil
}

func showLoadTargets(c *Live) string {
	var parts []string
	for _, name := range sortedKeys(c.LoadTests.Targets) {
		parts = append(parts, quote(name)+" = "+c.LoadTests.Targets[name].String())
	}
	if len(parts) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
