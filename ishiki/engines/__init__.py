"""The built-in engines: what the model sees, when a turn starts, how tool calls are written.

Each family is a folder, each engine a module named as profiles write it. Whoever assembles the process registers
`BUILTIN_ENGINES`; importing this registers nothing.
"""

from collections.abc import Sequence

from ishiki.contracts.services import Provider
from ishiki.engines.context.standard import StandardContextEngine
from ishiki.engines.context.v3 import V3ContextEngine
from ishiki.engines.toolcall.hermes import HermesToolcallEngine
from ishiki.engines.toolcall.morph_xml import MorphXmlToolcallEngine
from ishiki.engines.toolcall.native import NativeToolcallEngine
from ishiki.engines.toolcall.qwen3coder import Qwen3CoderToolcallEngine
from ishiki.engines.toolcall.v3 import V3ToolcallEngine
from ishiki.engines.toolcall.yaml_xml import YamlXmlToolcallEngine
from ishiki.engines.wakeup.jev import JevEngine
from ishiki.engines.wakeup.standard import StandardWakeupEngine
from ishiki.engines.wakeup.timers import TimersEngine
from ishiki.engines.wakeup.willingness import WillingnessEngine, WillingnessV3Engine

__all__ = ["BUILTIN_ENGINES"]

BUILTIN_ENGINES: Sequence[Provider] = (
    StandardContextEngine(),
    V3ContextEngine(),
    StandardWakeupEngine(),
    WillingnessEngine(),
    WillingnessV3Engine(),
    JevEngine(),
    TimersEngine(),
    NativeToolcallEngine(),
    V3ToolcallEngine(),
    HermesToolcallEngine(),
    Qwen3CoderToolcallEngine(),
    MorphXmlToolcallEngine(),
    YamlXmlToolcallEngine(),
)
"""One provider of each built-in engine; they hold no state."""
