package joboutputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Command is `skein job outputs`.
func Command(a *cli.App) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "outputs ID", Short: "The files that the chunks of a job left", Args: cli.Exactly(1, "the id or the name of a job"),
		Long: "Lists them, or with --to writes each to DIR/CHUNK/NAME. A file that is already there, and\n" +
			"the same, is not read again, so an interrupted copy continues.",
		Example: "  skein job outputs jabc\n" +
			"  skein job outputs jabc --to frames",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), a.Timeout)
			list, err := c.JobOutputs(ctx, args[0])
			cancel()
			if err != nil {
				return err
			}
			if to != "" {
				return write(a, cmd.Context(), c, list, to)
			}
			if len(list.Outputs) == 0 {
				a.Note("the job has no outputs so far: it lists them with `outputs`, and chunks that were accepted have them")
			}
			return a.Show(cli.View{Body: list, Items: cli.Items(list.Outputs), Table: func() present.Table { return present.Outputs(list) }})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "write them below this directory")
	return cmd
}

// write copies all files below a directory. Each comes under another name until it is
// whole.
func write(a *cli.App, ctx context.Context, c *api.Client, list api.JobOutputs, to string) error {
	read, bytes := 0, int64(0)
	for _, f := range list.Outputs {
		if _, err := job.ParseFileName(f.Name); err != nil || f.Chunk < 0 {
			return fmt.Errorf("chunk %d: %w: a file called %.64q", f.Chunk, api.ErrAnswer, f.Name)
		}
		dir := filepath.Join(to, strconv.Itoa(f.Chunk))
		name := filepath.Join(dir, f.Name)
		if is(name, f.File) {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as any directory that a command makes for its user
			return cli.Usagef("--to: %s", err)
		}
		if err := one(ctx, c, string(list.Job), f, name); err != nil {
			return err
		}
		read, bytes = read+1, bytes+f.Size
	}
	a.Note("%s in %s, of which %d with %s were read", present.Plural(len(list.Outputs), "file"), to, read, present.BytesOf(uint64(bytes)))
	return nil
}

func one(ctx context.Context, c *api.Client, id string, f job.OutputFile, name string) (err error) {
	out, err := os.CreateTemp(filepath.Dir(name), ".skein-*")
	if err != nil {
		return cli.Usagef("--to: %s", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name()) // it is of no use
		}
	}()
	err = c.JobOutput(ctx, id, f.Chunk, f.Name, f.File, out)
	if err = errors.Join(err, out.Chmod(0o644), out.Close()); err != nil {
		return err
	}
	if err = os.Rename(out.Name(), name); err != nil {
		return cli.Usagef("--to: %s", err)
	}
	return nil
}

// is reports that a file is the one that is wanted.
func is(name string, want job.File) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != want.Size {
		return false
	}
	sum := cluster.NewDigest(f)
	_, err = io.Copy(io.Discard, sum)
	return err == nil && sum.Sum() == want.Hash
}
