"""Find what a program needs and Monty does not have, without running any of it.

A program that has called a tool must not be run a second time elsewhere. So whether it is one for Monty, or for an
interpreter that is a whole Python, is decided from its text. tests/tea/test_monty.py compares each entry of the tables
with the Monty that is installed.

What only shows at run time (a method that some value does not have) is an error of the program like any other.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

NAMES: dict[str, str] = {
    "__future__": "absolute_import annotations division generator_stop generators nested_scopes print_function "
    "unicode_literals with_statement",
    "asyncio": "gather run sleep",
    "base64": "MAXBINSIZE MAXLINESIZE a85decode a85encode b16decode b16encode b32decode b32encode b32hexdecode "
    "b32hexencode b64decode b64encode b85decode b85encode decodebytes encodebytes standard_b64decode "
    "standard_b64encode urlsafe_b64decode urlsafe_b64encode",
    "binascii": "Error Incomplete a2b_base64 a2b_hex a2b_qp a2b_uu b2a_base64 b2a_hex b2a_qp b2a_uu crc32 crc_hqx "
    "hexlify unhexlify",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "collections": "Counter defaultdict deque namedtuple",
    "copy": "copy deepcopy",
    "csv": "Dialect DictReader DictWriter Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC excel excel_tab "
    "field_size_limit get_dialect list_dialects reader unix_dialect writer",
    "dataclasses": "FrozenInstanceError MISSING dataclass field is_dataclass",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "BasicContext Clamped Context ConversionSyntax Decimal DecimalException DecimalTuple DefaultContext "
    "DivisionByZero DivisionImpossible DivisionUndefined ExtendedContext FloatOperation HAVE_CONTEXTVAR HAVE_THREADS "
    "Inexact InvalidContext InvalidOperation MAX_EMAX MAX_PREC MIN_EMIN MIN_ETINY Overflow ROUND_05UP ROUND_CEILING "
    "ROUND_DOWN ROUND_FLOOR ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP Rounded Subnormal Underflow "
    "getcontext localcontext setcontext",
    "functools": "cache lru_cache partial reduce",
    "hashlib": "algorithms_available algorithms_guaranteed blake2b blake2s md5 new pbkdf2_hmac sha1 sha224 sha256 "
    "sha384 sha3_224 sha3_256 sha3_384 sha3_512 sha512 shake_128 shake_256",
    "itertools": "accumulate batched chain combinations combinations_with_replacement compress count cycle dropwhile "
    "filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest",
    "json": "JSONDecodeError dump dumps load loads",
    "math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc exp exp2 "
    "expm1 fabs factorial floor fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp "
    "lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod radians remainder sin sinh sqrt tan tanh tau "
    "trunc ulp",
    "os": "altsep curdir defpath extsep fspath linesep name pardir path pathsep sep",
    "os.path": "altsep basename commonpath commonprefix curdir defpath dirname extsep isabs join normcase normpath "
    "pardir pathsep sep split splitdrive splitext",
    "pathlib": "Path",
    "posixpath": "altsep basename commonpath commonprefix curdir defpath dirname extsep isabs join normcase normpath "
    "pardir pathsep sep split splitdrive splitext",
    "random": "Random betavariate choice choices expovariate gammavariate gauss getrandbits getstate lognormvariate "
    "normalvariate paretovariate randbytes randint random randrange sample seed setstate shuffle triangular uniform "
    "vonmisesvariate weibullvariate",
    "re": "A ASCII DOTALL I IGNORECASE M MULTILINE Match NOFLAG Pattern S compile error escape findall finditer "
    "fullmatch match search split sub",
    "sys": "abiflags api_version argv base_exec_prefix base_prefix builtin_module_names byteorder copyright "
    "dont_write_bytecode exec_prefix executable flags float_info float_repr_style hexversion maxsize maxunicode "
    "platform platlibdir prefix pycache_prefix stderr stdout version version_info",
    "time": "altzone asctime ctime daylight gmtime localtime mktime monotonic monotonic_ns perf_counter "
    "perf_counter_ns process_time process_time_ns sleep strftime strptime thread_time thread_time_ns time time_ns "
    "timezone tzname",
    "tomllib": "TOMLDecodeError load loads",
    "typing": "Annotated Any Callable ClassVar Dict Final FrozenSet Generator Generic Iterable Iterator List Literal "
    "Mapping Never NoReturn Optional Protocol Self Sequence Set TYPE_CHECKING Tuple Type TypeVar Union",
    "unicodedata": "category combining is_normalized lookup name normalize unidata_version",
}
"""The modules it has, and what is in them. Of `os` and its path only what needs no file: there are none."""

MODULES = ", ".join(sorted(name for name in NAMES if name != "__future__" and "." not in name and name != "os"))
"""For people and models."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAMES = {module: _words(names) for module, names in NAMES.items()}

MISSING_BUILTINS = _words(
    "BaseExceptionGroup BlockingIOError BrokenPipeError BufferError BytesWarning ChildProcessError "
    "ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError "
    "EncodingWarning EnvironmentError ExceptionGroup FloatingPointError FutureWarning GeneratorExit IOError "
    "ImportWarning IndentationError InterruptedError PendingDeprecationWarning ProcessLookupError ReferenceError "
    "ResourceWarning RuntimeWarning StopAsyncIteration SyntaxWarning SystemError TabError UnicodeError "
    "UnicodeTranslateError UnicodeWarning UserWarning Warning __build_class__ __import__ __loader__ aiter anext ascii "
    "breakpoint bytearray callable classmethod compile copyright credits delattr dir exit globals help input "
    "issubclass license memoryview quit staticmethod vars"
)

MISSING_METHODS = _words(
    "__len__ __bool__ __ne__ __lt__ __le__ __gt__ __ge__ __getattr__ __getattribute__ __format__ __bytes__ __iadd__ "
    "__isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__ __reversed__ "
    "__class_getitem__"
)
"""Special methods that a class may define and that are never called."""

_ON_FILES = _words(
    "read_text read_bytes write_text write_bytes iterdir glob rglob mkdir unlink rmdir touch exists is_file is_dir "
    "stat open"
)
"""Methods of a path that need a file system."""

_FORGIVEN = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def lacks(code: str) -> str | None:
    """Return what Monty lacks for a program, with the line; None if nothing is known, or it is no Python."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    look = _Look(names=_stored_names(tree))
    for node in ast.walk(tree):
        # Within `try: import x except ImportError:` the program has another way for itself.
        if isinstance(node, ast.Try) and any(_forgives(handler) for handler in node.handlers):
            look.guards.update(id(inner) for child in node.body for inner in ast.walk(child))
    gaps = [(node.lineno, gap) for node in ast.walk(tree) for gap in look.at(node) if hasattr(node, "lineno")]
    if not gaps:
        return None
    line, gap = min(gaps, key=lambda entry: entry[0])
    return f"{gap} (line {line})"


def _stored_names(tree: ast.AST) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return frozenset(names)


def _forgives(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _FORGIVEN) for kind in kinds)


@dataclass
class _Look:
    """A walk over a program's tree, outer nodes first."""

    names: frozenset[str]  # names that the program assigns
    guards: set[int] = field(default_factory=set)  # ids of the nodes whose failed imports the program handles
    modules: dict[str, str] = field(default_factory=dict)  # names bound to modules

    def at(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.ClassDef():
                yield from self._class(node)
            case ast.Yield() | ast.YieldFrom():
                yield "generator functions (yield)"
            case ast.Delete():
                yield "the statement del"
            case ast.AsyncWith():
                yield "async with"
            case ast.AsyncFor():
                yield "async for"
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                if any(generator.is_async for generator in node.generators):
                    yield "asynchronous comprehensions"
            case ast.TryStar():
                yield "exception groups (except*)"
            case ast.Import() if id(node) not in self.guards:
                yield from self._import(node)
            case ast.ImportFrom() if id(node) not in self.guards:
                yield from self._import_from(node)
            case ast.Attribute():
                yield from self._attribute(node)
            case ast.Name(ctx=ast.Load()):
                if node.id in self.names:
                    return
                if node.id == "open":
                    yield "files (open)"
                elif node.id in MISSING_BUILTINS and hasattr(builtins, node.id):
                    yield f"the builtin {node.id}"
            case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp(), *_]):
                yield "generator expressions as iterators (next of one); use a list and its first element"
            case _ if type(node).__name__ == "TypeAlias":
                yield "type aliases (type X = ...)"

    def _class(self, node: ast.ClassDef) -> Iterator[str]:
        if node.bases or node.keywords:
            yield "class inheritance and metaclasses"
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and any(keyword.arg == "order" for keyword in decorator.keywords):
                yield "the option order of dataclass"
        for child in node.body:
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                if child.decorator_list:
                    yield "decorated methods (property, classmethod, staticmethod)"
                if child.name in MISSING_METHODS:
                    yield f"the special method {child.name}"

    def _import(self, node: ast.Import) -> Iterator[str]:
        for alias in node.names:
            if alias.name not in _NAMES:
                yield f"the module {alias.name}"
            else:
                name = alias.asname or alias.name.partition(".")[0]
                self.modules[name] = alias.name if alias.asname else name

    def _import_from(self, node: ast.ImportFrom) -> Iterator[str]:
        module = node.module or ""
        if node.level:
            yield "relative imports"
        elif module not in _NAMES:
            yield f"the module {module}"
        elif any(alias.name == "*" for alias in node.names):
            yield "wildcard imports"
        else:
            for alias in node.names:
                if alias.name not in _NAMES[module]:
                    yield f"{module}.{alias.name}"
                elif f"{module}.{alias.name}" in _NAMES:
                    self.modules[alias.asname or alias.name] = f"{module}.{alias.name}"

    def _attribute(self, node: ast.Attribute) -> Iterator[str]:
        module = self._module(node.value)
        if module is not None and node.attr not in _NAMES[module] and not node.attr.startswith("__"):
            yield f"{module}.{node.attr}"
        elif isinstance(node.value, ast.Name) and node.value.id == "str" and node.attr == "maketrans":
            yield "str.maketrans"
        elif node.attr in _ON_FILES and "Path" in self.names | self.modules.keys() and module is None:
            yield f"files (Path.{node.attr})"

    def _module(self, value: ast.expr) -> str | None:
        if isinstance(value, ast.Name):
            return self.modules.get(value.id)
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            inner = f"{self.modules.get(value.value.id)}.{value.attr}"
            return inner if inner in _NAMES else None
        return None
