"""Assembly: profiles, engines, extensions, storage and models become running minds. Decides nothing about a chat."""
