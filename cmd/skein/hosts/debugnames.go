package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path"
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present/pseudonym"
)

// namesOf are the names of hosts and users that are known beside those that the files
// name: of the cluster, and of this machine.
func namesOf(a *cli.App, ctx context.Context, c *api.Client, hosts []cluster.NodeID) (*pseudonym.Names, error) {
	ctx, cancel := a.Limited(ctx)
	defer cancel()
	n := pseudonym.New()
	for _, h := range hosts {
		n.Add(pseudonym.Host, string(h))
	}
	users, err := c.Users(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range users.Users {
		n.Add(pseudonym.User, u.Name)
	}
	if name, err := os.Hostname(); err == nil && name != "localhost" {
		n.Add(pseudonym.Host, name)
		short, _, _ := strings.Cut(name, ".")
		n.Add(pseudonym.Host, short)
	}
	if u, err := user.Current(); err == nil && u.Username != "root" {
		n.Add(pseudonym.User, u.Username)
	}
	return n, nil
}

// disguise replaces the names in all that hosts gave.
func disguise(n *pseudonym.Names, hosts []bundleHost) {
	for _, h := range hosts {
		n.Learn([]byte(h.Error))
		for i, f := range h.Files {
			n.Learn([]byte(f.Error))
			n.Learn(h.texts[i])
		}
	}
	for i := range hosts {
		h := &hosts[i]
		h.Node, h.Version, h.Error = cluster.NodeID(n.Text([]byte(h.Node))), string(n.Text([]byte(h.Version))), string(n.Text([]byte(h.Error)))
		for j := range h.Files {
			f := &h.Files[j]
			f.Error = string(n.Text([]byte(f.Error)))
			if h.texts[j] != nil {
				h.texts[j] = disguised(n, f, h.texts[j])
			}
			f.Size = len(h.texts[j])
		}
	}
}

// disguised is one file; nil: its form is not known, so nothing of it is told.
func disguised(n *pseudonym.Names, f *bundleFile, text []byte) []byte {
	switch path.Ext(f.Name) {
	case ".json", ".jsonl":
		text = n.JSON(text)
	case ".pprof":
		out, err := n.Profile(text)
		if err != nil {
			f.Error = "left out: " + err.Error()
			return nil
		}
		return out
	default:
		if f.Name != "metrics.txt" {
			return n.Text(text)
		}
		text = n.JSON(text)
	}
	if f.Name == api.DebugLogFile {
		f.Error = strings.TrimPrefix(f.Error+"; without its names it proves nothing", "; ")
	}
	return text
}

// writeNames writes what stands for which name to a file of its own.
func writeNames(f *os.File, n *pseudonym.Names) error {
	text, err := json.MarshalIndent(n.Pairs(), "", " ")
	if err != nil {
		return err
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write names: %w", err)
	}
	return nil
}
