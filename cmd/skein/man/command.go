package man

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
)

// Command is the hidden command that writes the pages; packaging/stage runs it.
func Command(version string) *cobra.Command {
	o := Options{Version: version}
	cmd := &cobra.Command{
		Use: "man DIR", Hidden: true, Short: "Write the manual pages into a directory", Args: cli.Exactly(1, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := time.Parse(time.DateOnly, o.Date); o.Date != "" && err != nil {
				return cli.Usagef("--date: %q is no date, as 2026-01-31", o.Date)
			}
			for _, p := range Pages(cmd.Root(), o) {
				if err := os.WriteFile(filepath.Join(args[0], p.Name), p.Text, 0o644); err != nil {
					return fmt.Errorf("write manual page: %w", err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Date, "date", "", "date of the pages, YYYY-MM-DD")
	return cmd
}
